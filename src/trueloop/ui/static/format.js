// Numbers, durations and dates as words.

const MINUS = "−";

export function number(value, digits = 4) {
  if (value === null || value === undefined || value === "") return "";
  if (typeof value === "string") return value;
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en-US").replace("-", MINUS);
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e7) ? value.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e") : String(Number(value.toPrecision(digits)));
  return text.replace("-", MINUS).replace("e+", "e");
}

export function count(value) {
  return value === null || value === undefined ? "" : Math.round(value).toLocaleString("en-US");
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function date(seconds) {
  if (!seconds) return "";
  const at = new Date(seconds * 1000);
  const two = (part) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

// The name of a metric as people say it.
export function words(name) {
  const known = { lr: "learning rate", memory_mb: "memory (MB)", data_wait: "waiting for data (share)", samples_per_second: "samples per second" };
  return known[name] ?? name.replaceAll("_", " ");
}

// A value of a field.
export function field(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object") return JSON.stringify(value);
  return typeof value === "number" ? number(value, 6) : String(value);
}
