"""Units in the names of columns: degrees are not miles, and an area or a price has none of the usual two units."""

import re
from typing import Final

__all__ = ["fits_name"]

SPELLINGS: Final = {
    "Celsius": "c degc celsius temp temperature", "Fahrenheit": "f degf fahrenheit temp temperature",
    "kelvin": "k kelvin temp temperature", "miles": "miles mi", "km": "km", "kg": "kg", "pounds": "lb lbs pounds",
    "cm": "cm", "mm": "mm", "inches": "in inch inches", "feet": "ft feet", "m": "m", "m/s": "ms mps",
    "km/h": "kmh kph", "knots": "kn knots", "kcal": "kcal", "kJ": "kj", "radians": "rad radians",
    "degrees": "deg degrees", "gallons": "gal gallons", "liters": "l liters", "percent": "pct percent",
    "minutes": "minutes", "seconds": "s sec seconds", "hours": "h hours", "days": "days", "years": "years",
    "kW": "kw", "horsepower": "hp", "hectares": "ha", "acres": "acres", "grams": "g", "ounces": "oz",
    "mmol/L": "mmol", "mg/dL": "mgdl",
    "": "m2 m3 sqm hpa kpa bar mbar kwh wh w v mv a ma hz khz db ppm lux umol ph eur usd gbp chf sek jpy inr",
}  # fmt: skip
"""Of units, the last words of columns that have them. The last line: none of which another unit is as common."""
ENDINGS: Final = frozenset(" ".join(SPELLINGS.values()).split())
WARM: Final = ("temp", "temperature")  # anywhere in a name


def fits_name(column: str, units: str) -> bool:
    """Whether the unit in which the name of a column ends, if any, is one of two units ("miles and km"). A factor of
    10 or 1,000 may turn any unit into a larger one."""
    words = [word.lower() for word in re.findall("[A-Z]?[a-z0-9]+|[A-Z0-9]+", column)] or [""]
    ending = next((word for word in words if word in WARM), words[-1])
    if ending not in ENDINGS or units.startswith("a factor"):
        return True
    return any(ending in SPELLINGS.get(unit, "").split() for unit in re.split(" and | ", units))
