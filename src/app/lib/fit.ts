/** Text becomes no smaller than this part of its size. */
const LEAST = 0.35;

/**
 * Makes the content of a message as small as it takes to fit the width of its frame, without changing its layout.
 * Returns true if it is shown smaller than it was written.
 */
export function fitMessageWidth(main: HTMLElement): boolean {
  main.style.zoom = "";
  const { clientWidth, scrollWidth } = main;
  if (scrollWidth <= clientWidth + 1 || clientWidth === 0) return false;
  main.style.zoom = String(Math.max(LEAST, clientWidth / (scrollWidth + 1)));
  return true;
}
