/** Typeface and icon of the app and the API reference. */
import cyrillic from "@fontsource-variable/geist/files/geist-cyrillic-wght-normal.woff2" with { type: "file" };
import latinExtended from "@fontsource-variable/geist/files/geist-latin-ext-wght-normal.woff2" with { type: "file" };
import latin from "@fontsource-variable/geist/files/geist-latin-wght-normal.woff2" with { type: "file" };
import type { Assets } from "./files.ts";

/*
 * The typeface of the app and of the API reference: Geist, by Vercel and Basement Studio (SIL Open Font License). A browser
 * fetches the part that has the letters on the page; the system's fonts show other scripts.
 */

/** Letters of each part, as in the package's own styles. */
const PARTS = [
  {
    file: latin,
    range:
      "U+0000-00FF,U+0131,U+0152-0153,U+02BB-02BC,U+02C6,U+02DA,U+02DC,U+0304,U+0308,U+0329,U+2000-206F,U+20AC,U+2122,U+2191,U+2193,U+2212,U+2215,U+FEFF,U+FFFD",
  },
  {
    file: latinExtended,
    range:
      "U+0100-02BA,U+02BD-02C5,U+02C7-02CC,U+02CE-02D7,U+02DD-02FF,U+0304,U+0308,U+0329,U+1D00-1DBF,U+1E00-1E9F,U+1EF2-1EFF,U+2020,U+20A0-20AB,U+20AD-20C0,U+2113,U+2C60-2C7F,U+A720-A7FF",
  },
  { file: cyrillic, range: "U+0301,U+0400-045F,U+0490-0491,U+04B0-04B1,U+2116" },
] as const;

/** Adds the parts to `assets`. `styles` names them as "Geist"; `first` is the path of the part that every page needs. */
export async function addFonts(assets: Assets): Promise<{ styles: string; first: string }> {
  const paths = await Promise.all(
    PARTS.map(async ({ file }) => assets.add("woff2", "font/woff2", await Bun.file(file).bytes())),
  );
  const rules = PARTS.map(
    ({ range }, part) =>
      `@font-face{font-family:Geist;font-weight:100 900;font-display:swap;src:url(${paths[part]}) format("woff2");unicode-range:${range}}`,
  );
  return { styles: rules.join(""), first: paths[0] ?? "" };
}

/** The app's icon, as SVG. */
export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#2f6f5e"/><g fill="none" stroke="#fff" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round"><rect x="7.5" y="9" width="17" height="14" rx="2"/><path d="m8 10.5 8 6.5 8-6.5"/></g></svg>`;
