/** The parts of a release, as CycloneDX: npm's list without the fields that differ between two runs. */
import { createHash } from "node:crypto";
import { name, version } from "../package.json" with { type: "json" };
import { shippedPackages } from "./lock.ts";
import { outputOf } from "./tools.ts";

interface Component {
  "bom-ref": string;
}

interface Bom {
  serialNumber?: string;
  metadata: { timestamp: string; tools?: unknown; component: Component & { type: string; name: string } };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** The list as JSON. `time`: the commit's, epoch seconds. */
export async function listParts(root: string, time: number): Promise<string> {
  const bom = JSON.parse(await outputOf(root, "npm", "sbom", "--sbom-format=cyclonedx", "--package-lock-only")) as Bom;
  // npm's own option to omit packages for development also omits those that are for both.
  const shipped = new Set(shippedPackages(root).map(({ name, version }) => `${name}@${version}`));
  const isShipped = (ref: string): boolean => shipped.has(ref) || ref === bom.metadata.component["bom-ref"];
  bom.components = bom.components.filter((component) => isShipped(component["bom-ref"]));
  bom.dependencies = bom.dependencies.filter(({ ref }) => isShipped(ref));
  // These have the version of npm, the name of the folder and a random number.
  delete bom.metadata.tools;
  delete bom.serialNumber;
  Object.assign(bom.metadata.component, { type: "application", name });
  bom.metadata.timestamp = new Date(time * 1000).toISOString();
  bom.components.sort((a, b) => byText(a["bom-ref"], b["bom-ref"]));
  bom.dependencies.sort((a, b) => byText(a.ref, b.ref));
  for (const entry of bom.dependencies) entry.dependsOn = entry.dependsOn.filter(isShipped).sort(byText);
  const digest = createHash("sha256").update(`${name}@${version}`).update(JSON.stringify(bom)).digest("hex");
  // RFC 9562 §5.8: a UUID with bits of our choice.
  const uuid = digest.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-8$3-8$4-$5");
  return `${JSON.stringify({ ...bom, serialNumber: `urn:uuid:${uuid}` }, undefined, 2)}\n`;
}
