from trueloop import Severity

assert Severity.ADVICE < Severity.WARNING < Severity.ERROR
