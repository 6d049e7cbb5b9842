/** A meter of use. `label`: accessible name. */
export function UseBar({ label, used, of }: { label: string; used: number; of: number }) {
  return (
    <meter
      aria-label={label}
      className="use-bar"
      min={0}
      max={Math.max(of, 1)}
      high={Math.max(of, 1) * 0.9}
      optimum={0}
      value={used}
    />
  );
}
