/** Writes milliseconds as an ISO 8601 duration. A day is 24 hours. */

const UNITS = [
  ["D", 86_400_000],
  ["H", 3_600_000],
  ["M", 60_000],
] as const;

export function isoDuration(ms: number): string {
  let left = ms;
  let date = "";
  let time = "";
  for (const [unit, unitMs] of UNITS) {
    const count = Math.floor(left / unitMs);
    left -= count * unitMs;
    if (count === 0) continue;
    if (unit === "D") date = `${count}D`;
    else time += `${count}${unit}`;
  }
  if (left > 0) time += `${left / 1_000}S`;
  if (date === "" && time === "") return "PT0S";
  return `P${date}${time === "" ? "" : `T${time}`}`;
}
