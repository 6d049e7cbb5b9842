/** Pieces of code, their words told apart by colour. A button that copies them comes with the page's script (browser.ts). */
import type { ReactNode } from "react";

const TOKENS: Record<"json" | "shell" | "python", RegExp> = {
  json: /(?<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?<text>"(?:[^"\\]|\\.)*")|(?<word>\b(?:true|false|null)\b|-?\b\d[\d.]*\b)/g,
  python: /(?<text>"[^"]*")|(?<key>#.*)|(?<word>\b(?:import|def|return|if|for|in|True|False)\b)/g,
  shell: /(?<word>^curl\b)|(?<key>(?<=\s)--?[A-Za-z][\w-]*)|(?<text>'[^']*'|"[^"]*")/g,
};

function highlighted(text: string, language: keyof typeof TOKENS): ReactNode[] {
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS[language])) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, found]) => found !== undefined) ?? [];
    parts.push(text.slice(end, match.index));
    parts.push(
      <span key={match.index} className={`token-${kind}`}>
        {match[0]}
      </span>,
    );
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

/** `title` says what it is. */
export function Code({ title, language, text }: { title: string; language: keyof typeof TOKENS; text: string }) {
  return (
    <figure className="code">
      <figcaption>{title}</figcaption>
      <pre>
        <code>{highlighted(text, language)}</code>
      </pre>
    </figure>
  );
}

/** Text in which `words` between backticks are code. */
export const Prose = ({ children }: { children: string }): ReactNode =>
  children.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
