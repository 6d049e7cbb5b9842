/** Which program this is. */
import { version as number } from "../../package.json" with { type: "json" };
import { buildId } from "./build.macro.ts" with { type: "macro" };

export const version = number;

/** Tells builds of one version apart. */
export const build: string = buildId();
