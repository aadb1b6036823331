// The colours of the map: of groups, of numbers, and of faint points.

import { themeColour } from "./dom.js";

// Ten hues that also differ in lightness, for people with red-green colour blindness; one set per theme for contrast.
// Further groups are grey.
const GROUPS = {
  light: ["#2459b8", "#d9731c", "#1b8a6b", "#b3306e", "#7c5cd6", "#8a6d0b", "#0f8fb3", "#d04a3a", "#5a7d2a", "#6b4a3a"],
  dark: ["#7fb0ff", "#ffa154", "#45c9a0", "#f285b5", "#b79bff", "#e3c04b", "#5fd0ee", "#ff8a78", "#a8cf6b", "#c9a28c"],
};
// From low to high, without the colours that are too close to the background of the theme.
const SCALES = {
  light: ["#b7d3e6", "#6fa8cf", "#3f74b5", "#3d4391", "#2d1a57"],
  dark: ["#31427a", "#3b78a8", "#3fae9f", "#a3d573", "#fdf0a0"],
};
export const MAX_GROUPS = GROUPS.light.length;

const isDark = () => {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
};

const parseHex = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const mix = (a, b, share) => a.map((value, i) => Math.round(value + (b[i] - value) * share));

/** Returns the colours of the current theme. */
export function palette() {
  const theme = isDark() ? "dark" : "light";
  const [ground, grey, ink, same, different] = ["--map-ground", "--map-grey", "--ink", "--same", "--different"].map(
    themeColour,
  );
  const groups = GROUPS[theme].map(parseHex);
  const stops = SCALES[theme].map(parseHex);
  return {
    ground,
    grey,
    ink,
    same,
    different,
    group: (i) => (i < MAX_GROUPS ? groups[i] : grey),
    /** Returns the colour of a number between 0 and 1. */
    scale: (share) => {
      const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
      const low = Math.min(Math.floor(at), stops.length - 2);
      return mix(stops[low], stops[low + 1], at - low);
    },
    faint: (colour) => mix(colour, ground, 0.82),
  };
}
