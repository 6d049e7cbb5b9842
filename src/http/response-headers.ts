/**
 * Headers of every response to a browser. The policy is strict: scripts and styles only from our files, never inline,
 * and nothing from other sites. HTML of mail that got into a page could neither run nor load anything.
 */

/** Policy of the app's pages. Messages are shown in frames with an even stricter policy (frame-responses.ts). */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "frame-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  // That of the service worker's path (app/lib/service-worker.ts).
  "trusted-types service-worker",
].join("; ");

/** RFC 6797. Without subdomains, which others may run. */
export const STRICT_TRANSPORT_SECURITY = "max-age=31536000";

/** Headers of pages, files and data alike. `secure`: the public origin is https. */
export function commonHeaders({ secure }: { secure: boolean }): Record<string, string> {
  return {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    ...(secure && { "strict-transport-security": STRICT_TRANSPORT_SECURITY }),
  };
}

export const PAGE_HEADERS: Record<string, string> = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
  "x-frame-options": "DENY",
};
