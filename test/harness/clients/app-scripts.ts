/** The scripts of the web app, as the server gives them. */

export interface AppScripts {
  /** Paths of the scripts that every page runs. */
  first: string[];
  /** Paths of the scripts that others import when they are needed. */
  later: string[];
}

/** @throws Error for a missing script */
export async function appScripts(http: string): Promise<AppScripts> {
  const script = /<script[^>]* src="([^"]+)"/.exec(await (await fetch(http)).text())?.[1] ?? "";
  const reader = new Bun.Transpiler({ loader: "js" });
  const first = new Set([script]);
  const later = new Set<string>();
  // Both lists grow during the loop.
  for (const found of [first, later]) {
    for (const path of found) {
      const answer = await fetch(http + path);
      if (!answer.ok) throw new Error(`${path} is answered ${answer.status}`);
      for (const one of reader.scanImports(await answer.text())) {
        const imported = new URL(one.path, http + path).pathname;
        if (one.kind === "import-statement" && found === first) first.add(imported);
        else if (!first.has(imported)) later.add(imported);
      }
    }
  }
  return { first: [...first], later: [...later].filter((path) => !first.has(path)) };
}
