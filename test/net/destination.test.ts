import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { RefusedDestination, readDestination, resolveDestination } from "../../src/net/destination.ts";
import { type Zone, zone } from "../harness/peers/dns-server.ts";

/** Returns the reason for refusing a URL, or its destination. */
function read(url: string, allow: readonly string[] = []) {
  try {
    return readDestination(url, allow);
  } catch (error) {
    expect(error).toBeInstanceOf(RefusedDestination);
    expect(error).toMatchObject({ code: "unprocessable", status: 422 });
    return (error as Error).message;
  }
}

const HOSTILE: Record<string, readonly string[]> = {
  "a loopback address": [
    "http://127.0.0.1/",
    "http://127.0.0.53:8080/",
    "http://127.255.255.254/",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0X7F.1/",
    "http://017700000001/",
    "http://0177.0.0.01/",
    "http://127.0.0.1./",
    "http://127.0.0.1:80/",
    "http://%31%32%37.0.0.1/",
    "http://127%2e0%2e0%2e1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://127．0．0．1/",
    "http:127.0.0.1/",
    "http:/127.0.0.1/",
    "http:\\\\127.0.0.1\\hook",
    "http://127.0.0.1:80\\@93.184.215.14/",
    " http://127.0.0.1/ ",
    "ht\ntp://127.0.\t0.1/",
    "http://127.0.0.1?.example.com/",
    "http://127.0.0.1#.example.com/",
    "HTTPS://127.0.0.1/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000:0000::0001]:8080/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:FFFF:7F00:0001]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
  ],
  "the unspecified address": ["http://0/", "http://0.0.0.0/", "http://0x0/", "http://[::]/", "http://[::ffff:0:0]/"],
  "a private address": [
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://167772161/",
    "http://012.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://192.168.257/",
    "http://0xc0a80101/",
    "http://[::ffff:10.0.0.1]/",
    "http://[64:ff9b::192.168.1.1]/",
  ],
  "a link-local address": ["http://169.254.1.1/", "http://[fe80::1]/", "http://[febf::1]/"],
  "a unique-local address": ["http://[fc00::1]/", "http://[fd12:3456:789a::1]/", "http://[FD00::]/"],
  "a site-local address": ["http://[fec0::1]/"],
  "a shared address behind a carrier's NAT": ["http://100.64.0.1/", "http://100.127.255.254/"],
  "a cloud metadata service": [
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0xa9.254.0251.254/",
    "http://169.254.43518/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://169.254.170.2/v2/credentials",
    "http://[fd00:ec2::254]/",
    "http://[fd00:0ec2:0:0:0:0:0:0254]/",
    "http://[fd20:ce::254]/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://168.63.129.16/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://METADATA.google.internal./",
    "http://metadata.goog/",
    "http://metadata/",
    "http://instance-data/latest/",
  ],
  "a multicast address": ["http://224.0.0.1/", "http://239.255.255.250/", "http://[ff02::1]/", "http://[ff0e::1]/"],
  "the broadcast address": ["http://255.255.255.255/", "http://4294967295/"],
  "an address for documentation": [
    "http://192.0.2.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
  ],
  "an address for benchmarks": ["http://198.18.0.1/", "http://198.19.255.255/", "http://[2001:2::1]/"],
  "a Teredo address": ["http://[2001::1]/", "http://[2001:0:7f00:1::]/"],
  "a 6to4 address": ["http://[2002:7f00:1::]/", "http://[2002:808:808::]/", "http://192.88.99.1/"],
  "an address of a local NAT64": ["http://[64:ff9b:1::7f00:1]/"],
  "an IPv4-compatible address": ["http://[::127.0.0.1]/", "http://[::8.8.8.8]/", "http://[::2]/"],
  "an IPv4-mapped address": ["http://[::ffff:8.8.8.8]/"],
  "a reserved address": [
    "http://0.1.2.3/",
    "http://192.0.0.8/",
    "http://192.31.196.1/",
    "http://192.52.193.1/",
    "http://192.175.48.1/",
    "http://240.0.0.1/",
    "http://[100::1]/",
    "http://[100:0:0:1::1]/",
    "http://[2001:1::1]/",
    "http://[2620:4f:8000::1]/",
    "http://[5f00::1]/",
  ],
  "outside the public IPv6 addresses": ["http://[1::2]/", "http://[4000::1]/", "http://[::ffff:0:127.0.0.1]/"],
  "a name of the local network or machine": [
    "http://localhost/",
    "http://LocalHost:3000/",
    "http://localhost./",
    "http://local\u00adhost/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "http://%6c%6f%63alhost/",
    "http://hook.localhost/",
    "http://printer.local/",
    "http://db.internal/",
    "http://nas.home.arpa/",
    "http://localhost.localdomain/",
    "http://intranet/",
  ],
  "not a host name": [
    "http://hook..example.com/",
    "http://example.com../",
    "http://exa%2ample.com/",
    "http://localhost../",
    `http://${"a".repeat(64)}.example.com/`,
    `http://${"a.".repeat(130)}example.com/`,
  ],
  "a user name or password": [
    "https://user@example.com/",
    "https://user:secret@example.com/",
    "https://:secret@example.com/",
    "https://93.184.215.14@127.0.0.1/",
    "https://example.com%2f@127.0.0.1/",
  ],
  "not a URL": [
    "",
    "example.com",
    "//example.com/",
    "/hook",
    "http://",
    "https://exa mple.com/",
    "http://1.2.3.4.5/",
    "http://256.0.0.1/",
    "http://4294967296/",
    "http://0x100000000/",
    "http://127.0.0.1:99999/",
    "http://example.com:80:80/",
    "http://[::1",
    "http://[::1%25lo]/",
    "http://[fe80::1%eth0]/",
    "http://[::127.0.0.1.5]/",
    "http://127.0.0.1%00.example.com/",
    "http://exam%0aple.com/",
  ],
  "begin with https:// or http://": [
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com:70/_x",
    "javascript:alert(1)",
    "data:text/plain,x",
    "unix:///var/run/docker.sock",
    "ws://example.com/",
    "localhost:3000/",
  ],
  "belongs to another protocol": [
    "http://example.com:22/",
    "http://example.com:25/",
    "https://example.com:465/",
    "http://example.com:0/",
    "http://example.com:6667/",
    "http://example.com:10080/",
    "http://93.184.215.14:0025/",
  ],
  "longer than 2048 characters": [`https://example.com/${"a".repeat(2048)}`],
};

describe("a hostile URL is refused", () => {
  for (const [reason, urls] of Object.entries(HOSTILE)) {
    for (const url of urls) {
      test(`${JSON.stringify(url.slice(0, 60))}: ${reason}`, () => expect(read(url)).toContain(reason));
    }
  }
});

describe("a public URL is read", () => {
  const cases: [url: string, host: string, port: number, authority: string, path: string][] = [
    ["https://example.com", "example.com", 443, "example.com", "/"],
    ["http://example.com/hook?a=b&c", "example.com", 80, "example.com", "/hook?a=b&c"],
    ["https://Hooks.Example.COM:8443/a", "hooks.example.com", 8443, "hooks.example.com:8443", "/a"],
    ["https://example.com:443/", "example.com", 443, "example.com", "/"],
    ["https://example.com./a#b", "example.com", 443, "example.com", "/a"],
    ["http://example.com.:8080/", "example.com", 8080, "example.com:8080", "/"],
    ["https://bücher.example/ä", "xn--bcher-kva.example", 443, "xn--bcher-kva.example", "/%C3%A4"],
    ["https://my_hook.example.com/", "my_hook.example.com", 443, "my_hook.example.com", "/"],
    ["https://localhost.example.com/", "localhost.example.com", 443, "localhost.example.com", "/"],
    ["https://example.localhost.net/", "example.localhost.net", 443, "example.localhost.net", "/"],
    ["https://example.com/@user:secret", "example.com", 443, "example.com", "/@user:secret"],
    ["http://93.184.215.14/", "93.184.215.14", 80, "93.184.215.14", "/"],
    ["http://1572394766/", "93.184.215.14", 80, "93.184.215.14", "/"],
    ["http://9.255.255.255/", "9.255.255.255", 80, "9.255.255.255", "/"],
    ["http://11.0.0.0/", "11.0.0.0", 80, "11.0.0.0", "/"],
    ["http://172.32.0.1/", "172.32.0.1", 80, "172.32.0.1", "/"],
    ["http://100.128.0.1/", "100.128.0.1", 80, "100.128.0.1", "/"],
    ["http://223.255.255.255/", "223.255.255.255", 80, "223.255.255.255", "/"],
    ["http://[2606:2800:21f::1]:81/x", "2606:2800:21f::1", 81, "[2606:2800:21f::1]:81", "/x"],
    ["http://[2001:200::1]/", "2001:200::1", 80, "[2001:200::1]", "/"],
    ["http://[64:ff9b::8.8.8.8]/", "64:ff9b::808:808", 80, "[64:ff9b::808:808]", "/"],
  ];
  for (const [url, host, port, authority, path] of cases) {
    test(url, () => {
      const protocol = url.slice(0, url.indexOf(":") + 1) as "http:" | "https:";
      expect(read(url)).toEqual({ protocol, host, port, authority, path });
    });
  }
});

const byte = fc.nat(255);
const quad = fc.tuple(byte, byte, byte, byte);
const numberOf = ([a, b, c, d]: number[]): number => (((a ?? 0) * 256 + (b ?? 0)) * 256 + (c ?? 0)) * 256 + (d ?? 0);
const hexPair = ([a, b, c, d]: number[]): string =>
  `${((a ?? 0) * 256 + (b ?? 0)).toString(16)}:${((c ?? 0) * 256 + (d ?? 0)).toString(16)}`;

/** Spellings of an IPv4 address that connect to the same host. */
const SPELLINGS: ((bytes: number[]) => string)[] = [
  (bytes) => `${numberOf(bytes)}`,
  (bytes) => `0x${numberOf(bytes).toString(16)}`,
  (bytes) => `0${numberOf(bytes).toString(8)}`,
  (bytes) => bytes.map((one) => `0x${one.toString(16).toUpperCase()}`).join("."),
  (bytes) => bytes.map((one) => `0${one.toString(8)}`).join("."),
  ([a = 0, ...rest]) => `${a}.${numberOf([0, ...rest])}`,
  ([a = 0, b = 0, ...rest]) => `${a}.0${b.toString(8)}.${numberOf([0, 0, ...rest])}`,
  (bytes) => `${bytes.join(".")}.`,
  (bytes) => bytes.join("%2E"),
  (bytes) =>
    [...bytes.join("。")].map((c) => (c === "。" ? c : String.fromCharCode(c.charCodeAt(0) + 0xfee0))).join(""),
];

describe("an address is judged by its value, not its spelling", () => {
  test("every spelling of an IPv4 address is recognised", () => {
    fc.assert(
      fc.property(quad, fc.constantFrom(...SPELLINGS), (bytes, spell) => {
        expect(read(`http://${spell(bytes)}/`)).toEqual(read(`http://${bytes.join(".")}/`));
      }),
    );
  });

  test("IPv4 inside IPv6 is allowed no more than outside", () => {
    fc.assert(
      fc.property(quad, (bytes) => {
        const plain = read(`http://${bytes.join(".")}/`);
        const isPublic = typeof plain !== "string";
        expect(typeof read(`http://[64:ff9b::${hexPair(bytes)}]/`) !== "string").toBe(isPublic);
        for (const prefix of ["::ffff:", "::", "64:ff9b:1::", "::ffff:0:"]) {
          expect(read(`http://[${prefix}${hexPair(bytes)}]/`)).toBeString();
        }
        expect(read(`http://[2002:${hexPair(bytes)}::]/`)).toBeString();
      }),
    );
  });

  test("every spelling of an IPv6 address is recognised", () => {
    const groups = fc.array(fc.oneof(fc.constant(0), fc.nat(0xffff)), { minLength: 8, maxLength: 8 });
    fc.assert(
      fc.property(
        fc.oneof(
          groups,
          groups.map(([, ...rest]) => [0x2a00, ...rest]),
        ),
        (parts) => {
          const long = parts.map((part) => part.toString(16).padStart(4, "0").toUpperCase()).join(":");
          const short = parts.map((part) => part.toString(16)).join(":");
          expect(read(`http://[${long}]/`)).toEqual(read(`http://[${short}]/`));
          if (parts[0] !== 0x2a00 && ((parts[0] ?? 0) & 0xe000) !== 0x2000 && parts[0] !== 0x64) {
            expect(read(`http://[${short}]/`)).toBeString();
          }
        },
      ),
    );
  });

  test("any text is read or refused, without another error", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.webUrl(),
          fc.string().map((s) => `http://${s}/`),
        ),
        (url) => void read(url),
      ),
    );
  });
});

describe("excepted networks", () => {
  test("allow addresses that are refused otherwise", () => {
    expect(read("http://127.0.0.1:3000/", ["127.0.0.0/8"])).toMatchObject({ host: "127.0.0.1" });
    expect(read("http://[::ffff:127.0.0.1]/", ["127.0.0.0/8"])).toMatchObject({ host: "::ffff:7f00:1" });
    expect(read("http://[fd00::5]/", ["10.0.0.0/8", "fd00::/8"])).toMatchObject({ host: "fd00::5" });
    expect(read("http://10.0.0.1/", ["127.0.0.0/8"])).toContain("a private address");
    expect(read("http://[64:ff9b::10.0.0.1]/", ["10.0.0.0/8"])).toMatchObject({ host: "64:ff9b::a00:1" });
    expect(read("http://[64:ff9b::10.0.0.1]/", ["127.0.0.0/8"])).toContain("a private address");
  });

  test("never allow a metadata service, and change nothing else", () => {
    const everything = ["0.0.0.0/0", "::/0"];
    for (const reason of ["a cloud metadata service", "a user name or password", "belongs to another protocol"]) {
      for (const url of HOSTILE[reason] ?? []) expect(read(url, everything)).toContain(reason);
    }
  });
});

describe("the addresses of a name", () => {
  const resolve = (url: string, records: Zone, allow: readonly string[] = []) =>
    resolveDestination(readDestination(url, allow), { dns: zone(records), allow });

  async function refusal(url: string, records: Zone, allow: readonly string[] = []): Promise<string> {
    const error: unknown = await resolve(url, records, allow).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(RefusedDestination);
    return (error as Error).message;
  }

  test("are all of them, IPv4 first, in one spelling", async () => {
    const records: Zone = { "hook.example": { aaaa: ["2606:2800:21F::1"], a: ["93.184.215.14", "93.184.215.15"] } };
    const addresses = ["93.184.215.14", "93.184.215.15", "2606:2800:21f:0:0:0:0:1"];
    expect(await resolve("https://hook.example/", records)).toEqual(addresses);
    expect(await resolve("https://HOOK.example./", records)).toEqual(addresses);
    expect(await resolve("https://93.184.215.14/", {})).toEqual(["93.184.215.14"]);
  });

  test("are refused together when one of them is special", async () => {
    const special: [Zone[string], string][] = [
      [{ a: ["127.0.0.1"] }, "a loopback address"],
      [{ a: ["93.184.215.14", "10.0.0.1"] }, "a private address"],
      [{ a: ["93.184.215.14"], aaaa: ["::1"] }, "a loopback address"],
      [{ a: ["93.184.215.14"], aaaa: ["::ffff:93.184.215.14"] }, "an IPv4-mapped address"],
      [{ aaaa: ["64:ff9b::a00:1"] }, "a private address"],
      [{ a: ["169.254.169.254"] }, "a cloud metadata service"],
      [{ cname: "inner.example" }, "a unique-local address"],
    ];
    for (const [records, reason] of special) {
      const message = await refusal("http://hook.example/", {
        "hook.example": records,
        "inner.example": { a: ["93.184.215.14"], aaaa: ["fd00::5"] },
      });
      expect(message).toContain(`hook.example leads to ${reason}`);
      expect(message).not.toMatch(/\d\.\d|::/);
    }
  });

  test("may lie in excepted networks", async () => {
    const records: Zone = { "hook.example": { a: ["10.0.0.7"] }, "db.internal": { a: ["10.0.0.8"] } };
    expect(await resolve("http://hook.example/", records, ["10.0.0.0/8"])).toEqual(["10.0.0.7"]);
    expect(await resolve("http://db.internal/", records, ["10.0.0.0/8"])).toEqual(["10.0.0.8"]);
    expect(await refusal("http://hook.example/", records, ["10.1.0.0/16"])).toContain("a private address");
  });

  test("of a local name have to lie in excepted networks", async () => {
    const records: Zone = { "db.internal": { a: ["93.184.215.14"] } };
    expect(await refusal("http://db.internal/", records, ["10.0.0.0/8"])).toContain("local network");
    expect(await refusal("http://localhost/", {}, ["10.0.0.0/8"])).toContain("local network");
  });

  test("of localhost are this machine's, whatever DNS says", async () => {
    const records: Zone = { localhost: { a: ["93.184.215.14"] } };
    expect(await resolve("http://localhost:3000/", records, ["127.0.0.0/8"])).toEqual(["127.0.0.1"]);
    expect(await resolve("http://a.localhost/", records, ["127.0.0.0/8", "::1/128"])).toEqual([
      "127.0.0.1",
      "0:0:0:0:0:0:0:1",
    ]);
  });

  test("may appear later, so a name without addresses is not refused", async () => {
    const records: Zone = { "broken.example": "SERVFAIL", "slow.example": "silence", "empty.example": { txt: ["x"] } };
    for (const [name, message] of [
      ["missing.example", "missing.example has no address"],
      ["empty.example", "empty.example has no address"],
      ["broken.example", "DNS gave no answer for broken.example (ESERVFAIL)"],
      ["slow.example", "DNS gave no answer for slow.example (ETIMEOUT)"],
    ] as const) {
      const error: unknown = await resolve(`http://${name}/`, records).catch((thrown) => thrown);
      expect(error).not.toBeInstanceOf(RefusedDestination);
      expect((error as Error).message).toBe(message);
    }
  });

  test("of one family are enough while DNS fails for the other", async () => {
    const dns = zone({ "hook.example": { a: ["93.184.215.14"], failing: { aaaa: "SERVFAIL" } } });
    const destination = readDestination("http://hook.example/", []);
    expect(await resolveDestination(destination, { dns, allow: [] })).toEqual(["93.184.215.14"]);
  });
});
