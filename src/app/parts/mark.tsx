/** The app's logo, as its favicon (src/http/brand.ts), in the page's colours. */
export function Mark({ className }: { className: string }) {
  return (
    <svg viewBox="0 0 32 32" className={className} aria-hidden="true">
      <rect width="32" height="32" rx="8" className="fill-accent" />
      <g className="stroke-on-accent" fill="none" strokeWidth="2.2" strokeLinecap="round" strokeLinejoin="round">
        <rect x="7.5" y="9" width="17" height="14" rx="2" />
        <path d="m8 10.5 8 6.5 8-6.5" />
      </g>
    </svg>
  );
}
