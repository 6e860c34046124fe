"""Operations that torch has not: each registered as a custom operator, beside the plain torch that it must agree
with."""
