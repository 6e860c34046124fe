"""Operations that torch has not: each a custom operator, beside the plain torch that it must agree with."""
