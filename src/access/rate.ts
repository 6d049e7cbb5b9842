/**
 * Rate limits in fixed windows that begin with their first request (rules: Request rates; over SMTP,
 * inbound/connect.ts). A name over the limit is refused for a cooldown, counted from the request over the limit, and
 * then starts a new window.
 *
 * Invariants: memory is bounded for any number of names; limits are read at each use, so that a changed setting applies
 * at once; a clock set back costs at most one cooldown.
 */

/** The values of the rate headers. */
export interface Rate {
  /** Requests in a window, and how many of them remain in this one. */
  limit: number;
  remaining: number;
  /** Whole seconds, 1 or more, until the window ends, or the cooldown. */
  endsIn: number;
}

/** `retryAfter` is set, to `endsIn`, if the request is refused. */
export interface RateVerdict extends Rate {
  retryAfter?: number;
}

interface Window {
  since: number;
  taken: number;
  /** Time of the first request over the limit. */
  exceededAt?: number;
}

export const WINDOW_SECONDS = 60;
/** About 10 MB at most. Beyond it the oldest names are dropped: so many never come from one client. */
const MOST_REMEMBERED = 50_000;

/** `mostInWindow` and `cooldownSeconds` are called at each use. A cooldown of 0 refuses for the rest of the window. */
export function createRateLimit(
  mostInWindow: () => number,
  cooldownSeconds: () => number,
  capacity = MOST_REMEMBERED,
  windowMs = WINDOW_SECONDS * 1000,
) {
  // Ordered by the start of windows and cooldowns, so that expired ones are at the front.
  const windows = new Map<string, Window>();

  const windowEnd = ({ since, exceededAt }: Window): number => {
    const cooldownMs = cooldownSeconds() * 1000;
    return exceededAt === undefined || cooldownMs === 0 ? since + windowMs : exceededAt + cooldownMs;
  };

  const secondsToEnd = (window: Window, now: number): number =>
    Math.max(1, Math.ceil((windowEnd(window) - now) / 1000));

  function forget(now: number): void {
    for (const [name, window] of windows) {
      if (windows.size < capacity && now < windowEnd(window)) return;
      windows.delete(name);
    }
  }

  function begin(name: string, now: number): Window {
    windows.delete(name);
    forget(now);
    const window = { since: now, taken: 0 };
    windows.set(name, window);
    return window;
  }

  function current(name: string, now: number): Window {
    const window = windows.get(name);
    if (!window || now >= windowEnd(window)) return begin(name, now);
    if (window.exceededAt !== undefined && now < window.exceededAt) {
      // The clock was set back: the cooldown starts now.
      window.since = now;
      window.exceededAt = now;
    } else if (now < window.since) {
      return begin(name, now);
    }
    return window;
  }

  return {
    /** Counts one request of `name` at `now` (epoch ms). */
    take(name: string, now: number): RateVerdict {
      const limit = mostInWindow();
      const window = current(name, now);
      if (window.exceededAt === undefined && window.taken < limit) {
        window.taken++;
        return { limit, remaining: limit - window.taken, endsIn: secondsToEnd(window, now) };
      }
      if (window.exceededAt === undefined) {
        window.exceededAt = now;
        windows.delete(name);
        windows.set(name, window);
      }
      const endsIn = secondsToEnd(window, now);
      return { limit, remaining: 0, endsIn, retryAfter: endsIn };
    },
    /** Number of names in memory. */
    size: () => windows.size,
  };
}
