/** Reads what the CSS property `filter` does to colours (Filter Effects 1 §6). */
import type { Color } from "./color.ts";

export type Filter = (color: Color) => Color;

const CALL = /([a-z-]+)\(\s*([^()]*(?:\([^()]*\)[^()]*)*)\)/g;
/** A radius from which type of 16 px is a smear, in pixels. */
const SMEAR = 5;

const within = (value: number): number => Math.min(255, Math.max(0, value));
const each =
  (change: (channel: number) => number): Filter =>
  ([red, green, blue, alpha]) => [within(change(red)), within(change(green)), within(change(blue)), alpha];
/** Mixes each channel with the brightness of all. */
const grey =
  (amount: number): Filter =>
  ([red, green, blue, alpha]) => {
    const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    const mixed = (channel: number) => within(light + (channel - light) * (1 - amount));
    return [mixed(red), mixed(green), mixed(blue), alpha];
  };

/** The opacity that filters leave, and what they do to colours; "hidden" if nothing can be told or read. Lower case. */
export function parseColorFilter(value: string): { opacity: number; filter: Filter } | "hidden" {
  let opacity = 1;
  const steps: Filter[] = [];
  if (value.replace(CALL, "").trim() !== "") return "hidden";
  for (const [, name = "", argument = ""] of value.matchAll(CALL)) {
    const number = Number.parseFloat(argument) / (argument.trim().endsWith("%") ? 100 : 1);
    const amount = argument.trim() === "" ? 1 : number;
    if (name === "blur") {
      if (number >= SMEAR) return "hidden";
    } else if (name === "opacity") opacity *= Math.min(1, Math.max(0, amount));
    else if (name === "brightness") steps.push(each((channel) => channel * amount));
    else if (name === "contrast") steps.push(each((channel) => (channel - 127.5) * amount + 127.5));
    else if (name === "invert") steps.push(each((channel) => channel + (255 - 2 * channel) * Math.min(1, amount)));
    else if (name === "grayscale") steps.push(grey(Math.min(1, amount)));
    else if (name === "saturate") steps.push(grey(1 - amount));
    // They leave light and dark apart.
    else if (!/^(?:sepia|hue-rotate|drop-shadow)$/.test(name)) return "hidden";
    if (Number.isNaN(amount) && !/^(?:hue-rotate|drop-shadow|blur)$/.test(name)) return "hidden";
  }
  return { opacity, filter: (color) => steps.reduce((changed, step) => step(changed), color) };
}
