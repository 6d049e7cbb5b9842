/** What came of an import: counted in all and by source, with a reason for each message that was not taken. */

export interface Failure {
  /** A file, or where in it. */
  place: string;
  reason: string;
}

export interface SourceTally {
  path: string;
  format: string;
  imported: number;
  /** There already, or deleted where it was kept. */
  skipped: number;
  failed: number;
  /** The first of them. */
  failures: Failure[];
}

export interface Tally {
  imported: number;
  skipped: number;
  failed: number;
  sources: SourceTally[];
}

const MOST_FAILURES = 100;

export function createTally() {
  const sources = new Map<string, SourceTally>();
  const total: Tally = { imported: 0, skipped: 0, failed: 0, sources: [] };

  function of({ path, format }: Pick<SourceTally, "path" | "format">): SourceTally {
    let source = sources.get(path);
    if (!source) {
      source = { path, format, imported: 0, skipped: 0, failed: 0, failures: [] };
      sources.set(path, source);
      total.sources.push(source);
    }
    return source;
  }

  return {
    total,
    count(source: Pick<SourceTally, "path" | "format">, outcome: "imported" | "skipped"): void {
      of(source)[outcome]++;
      total[outcome]++;
    },
    fail(source: Pick<SourceTally, "path" | "format">, failure: Failure): void {
      const counted = of(source);
      counted.failed++;
      total.failed++;
      if (counted.failures.length < MOST_FAILURES) counted.failures.push(failure);
    },
  };
}
