import { expect, test } from "bun:test";
import { isColor, safeStyle } from "../../src/message/style.ts";

const KEPT = [
  "color:red",
  "color:#ff0000",
  "color:rgb(1, 2, 3)",
  "background-color:rgba(0,0,0,.5)",
  "font-family:Arial, 'Helvetica Neue', \"Segoe UI\"",
  "font:bold 12px/1.5 Arial",
  "margin:0 auto",
  "padding:10px 5px",
  "width:600px",
  "max-width:100%",
  "border:1px solid #ccc",
  "border-collapse:collapse",
  "text-align:center",
  "line-height:1.5",
  "display:none",
  "display:inline-block",
  "vertical-align:top",
  "white-space:pre-wrap",
  "overflow:hidden",
  "list-style-type:square",
];

const DROPPED = [
  "position:fixed",
  "position:absolute;top:0",
  "z-index:9999",
  "opacity:0",
  "margin:-100px",
  "margin-left: -5em",
  "text-indent:-9999px",
  "width:100vw",
  "height:99999px",
  "font-size:100000px",
  "background:url(https://x.example/)",
  "background-image:url('x')",
  "list-style-image:url(x)",
  "list-style:url(x)",
  "border-image:url(x)",
  "cursor:url(x), auto",
  "content:'x'",
  "width:expression(alert(1))",
  "width:e/**/xpression(alert(1))",
  "color:\\72 ed",
  "behavior:url(x)",
  "-moz-binding:url(x)",
  "background-image:image-set('x' 1x)",
  "background:image-set('x' 1x)",
  "font-family:url(x)",
  "color:var(--x)",
  "width:calc(100% + 1px)",
  "transform:scale(100)",
  "filter:blur(5px)",
  "animation:x 1s",
  "pointer-events:none",
  "display:flex",
  "@import 'x'",
  "color:red}body{background:url(x)",
  "color",
  ":red",
  "__proto__:red",
  "constructor:red",
];

for (const style of KEPT) test(`keeps ${style}`, () => expect(safeStyle(style)).toBe(style));
for (const style of DROPPED) test(`drops ${style}`, () => expect(safeStyle(style)).toBe(""));

test("each declaration is checked alone, and a background keeps only its colour", () => {
  expect(safeStyle("COLOR : Red !important; position:fixed; background: #fff url('a;b') no-repeat; margin:1px")).toBe(
    "color:Red;background-color:#fff;margin:1px",
  );
  expect(safeStyle("background:red")).toBe("background-color:red");
  expect(safeStyle('font-family:"a;b";color:red')).toBe("color:red");
  expect(safeStyle("x".repeat(20_000))).toBe("");
});

test("isColor", () => {
  for (const color of ["red", "#fff", "ffffff", " #FFFFFF "]) expect(isColor(color)).toBe(true);
  for (const color of ["", "url(x)", "red;x", "#ggg"]) expect(isColor(color)).toBe(false);
});
