/** The app's icon, as SVG. */
export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#2f6f5e"/><g fill="none" stroke="#fff" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round"><rect x="7.5" y="9" width="17" height="14" rx="2"/><path d="m8 10.5 8 6.5 8-6.5"/></g></svg>`;
