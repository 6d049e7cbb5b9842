/** The scripts of the web app, as the server gives them out. */

export interface AppScripts {
  /** Paths of what every page runs. */
  first: string[];
  /** Of what is loaded when it is wanted, which the others import by name. */
  later: string[];
}

/** @throws Error for one that is not there. */
export async function appScripts(http: string): Promise<AppScripts> {
  const script = /<script[^>]* src="([^"]+)"/.exec(await (await fetch(http)).text())?.[1] ?? "";
  const reader = new Bun.Transpiler({ loader: "js" });
  const first = new Set([script]);
  const later = new Set<string>();
  // Both grow while they are gone through.
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
