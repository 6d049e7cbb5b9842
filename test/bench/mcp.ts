/**
 * MCP beside REST: the same operation asked over both faces, in both eras of the protocol, as messages written by hand,
 * so that only the server's work is counted. CPU is that of the server process, all threads.
 */
import { type Served, serve } from "../harness/servers/process.ts";
import { ADDRESS, cpuMs, newPlace, print } from "./figures.ts";
import { messageMaker } from "./generator.ts";
import { pump } from "./smtp-load.ts";

const MESSAGES = 500;
const TURNS = 5;
const CALLS = 400;
const CONNECTIONS = 8;

const MODERN = "2026-07-28";
const META = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** Calls a second, and CPU ms a call, of each; by turns, so that what else the machine does falls on all alike. */
async function measure<Name extends string>(
  pid: number,
  calls: Record<Name, () => Promise<void>>,
): Promise<Record<Name, { rate: number; cpu: number }>> {
  const repeat = async (call: () => Promise<void>, times: number) => {
    let left = times;
    const one = async () => {
      while (left-- > 0) await call();
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, one));
  };
  const entries = Object.entries(calls) as [Name, () => Promise<void>][];
  const spent = new Map(entries.map(([name]) => [name, { ms: 0, cpu: 0 }]));
  for (let turn = -1; turn < TURNS; turn++) {
    for (const [name, call] of entries) {
      const sum = spent.get(name);
      const before = cpuMs(pid);
      const started = performance.now();
      await repeat(call, CALLS);
      // The first turn warms up.
      if (!sum || turn < 0) continue;
      sum.ms += performance.now() - started;
      sum.cpu += cpuMs(pid) - before;
    }
  }
  const times = TURNS * CALLS;
  return Object.fromEntries(
    [...spent].map(([name, { ms, cpu }]) => [name, { rate: times / (ms / 1_000), cpu: cpu / times }]),
  ) as Record<Name, { rate: number; cpu: number }>;
}

const faces = ({ http }: Served, apiKey: string) => {
  const authorization = `Bearer ${apiKey}`;
  const json = { authorization, "content-type": "application/json", accept: "application/json, text/event-stream" };
  const call = (headers: Record<string, string>, params: Record<string, unknown>) => async () => {
    const response = await fetch(`${http}/api/mcp`, {
      method: "POST",
      headers: { ...json, ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
    });
    const { result } = (await response.json()) as { result?: { isError?: boolean } };
    if (!result || result.isError) throw new Error(`${params.name} answered ${JSON.stringify(result)}`);
  };
  return {
    rest: (path: string) => async () => {
      const response = await fetch(`${http}/api/v1${path}`, { headers: { authorization } });
      if (response.status !== 200) throw new Error(`${path} answered ${response.status}`);
      await response.json();
    },
    "2025-11-25": (name: string, args: object) =>
      call({ "mcp-protocol-version": "2025-11-25" }, { name, arguments: args }),
    [MODERN]: (name: string, args: object) =>
      call(
        { "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": name },
        { name, arguments: args, _meta: META },
      ),
  } as const;
};

export async function mcp(): Promise<void> {
  const { place, apiKey } = await newPlace("mcp");
  const server = await serve(place);
  const { port } = server.mx;
  await pump({ port, to: ADDRESS, connections: 10, messages: MESSAGES, message: messageMaker(1, 10_000, ADDRESS) });
  const face = faces(server, apiKey);
  const listed = await fetch(`${server.http}/api/v1/messages?limit=1`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  const { messages } = (await listed.json()) as { messages: { id: string; threadId: string }[] };
  const [newest] = messages;
  if (!newest) throw new Error("there is no mail to read");

  for (const [name, args, path] of [
    ["list_mailboxes", {}, "/mailboxes"],
    ["list_threads", { limit: 25 }, "/threads?limit=25"],
    ["get_thread", { id: newest.threadId }, `/threads/${newest.threadId}`],
    ["get_message", { id: newest.id }, `/messages/${newest.id}`],
    ["search_mail", { q: "the" }, "/search?q=the"],
  ] as const) {
    const measured = await measure(server.pid, {
      rest: face.rest(path),
      "2025-11-25": face["2025-11-25"](name, args),
      [MODERN]: face[MODERN](name, args),
    });
    for (const revision of ["2025-11-25", MODERN] as const) {
      const { rate, cpu } = measured[revision];
      const figure = `MCP ${revision} ${name}`;
      print({
        figure: `${figure}, ${CONNECTIONS} connections`,
        value: rate,
        unit: "calls/s",
        floor: measured.rest.rate,
      });
      print({
        figure: `${figure}, CPU a call`,
        value: cpu,
        unit: "ms",
        floor: measured.rest.cpu,
        toReach: "1.5 × REST",
      });
    }
  }
  await server.kill("SIGTERM");
}
