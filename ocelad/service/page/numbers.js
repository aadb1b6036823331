// Numbers, shares and dates as they are written in the language of the page.

import { language } from "./words.js";

const format = (options) => new Intl.NumberFormat(language, options);
const whole = format({ maximumFractionDigits: 0 });
const digits = (n) => format({ maximumSignificantDigits: n, useGrouping: false });
const few = digits(3);
const tiny = format({ notation: "scientific", maximumFractionDigits: 1 });
const percent = format({ style: "percent", maximumFractionDigits: 0 });
const smallPercent = format({ style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const moment = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });

/** Formats a number with three digits: 0.0123, 4.57, 1,234. */
export function formatNumber(number) {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1000) return whole.format(number);
  return size >= 0.001 || size === 0 ? few.format(number) : tiny.format(number);
}

/** Formats two numbers with at least three digits, and with enough digits to differ. */
export function formatDistinct(left, right) {
  for (let n = 3; left !== right && n <= 15; n++) {
    const both = [left, right].map((number) => (n === 3 ? formatNumber(number) : digits(n).format(number)));
    if (both[0] !== both[1]) return both;
  }
  return [formatNumber(left), formatNumber(right)];
}

export const formatPercent = (share) => (share < 0.0995 && share > 0 ? smallPercent : percent).format(share);

/** Formats a time in milliseconds since 1970. */
export const formatTime = (milliseconds) => moment.format(milliseconds);

const UNITS = ["kilobyte", "megabyte", "gigabyte"];

/** Formats a number of bytes: 12 kB, 3.4 MB. */
export function formatBytes(bytes) {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(bytes, 1000)) / 3) - 1);
  const options = { style: "unit", unit: UNITS[power], maximumSignificantDigits: 3 };
  return format(options).format(bytes / 1000 ** (power + 1));
}

const day = new Intl.DateTimeFormat(language, { dateStyle: "medium" });

/** Formats the day of a time in milliseconds since 1970. */
export const formatDay = (milliseconds) => day.format(milliseconds);
