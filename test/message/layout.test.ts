import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { textOfHtml } from "../../src/message/layout.ts";

describe("textOfHtml", () => {
  const cases: [string, string][] = [
    ["<p>one</p><p>two</p>", "one\n\ntwo"],
    ["a<br>b", "a\nb"],
    ["<br><p><br>a</p><br>b", "a\n\n\nb"],
    ["4&#8203;8&zwnj;2 a&#8203; b<p>&#8203;</p><p>c</p>", "48\u200c2 a b\n\nc"],
    ['<a href="https://a.example/x?y=1&amp;z=2">here</a>', "here <https://a.example/x?y=1&z=2>"],
    ['<a href="https://a.example/">https://a.example/</a>', "https://a.example/"],
    ["<ul><li>one<li>two</ul>", " * one\n * two"],
    ["<ol><li>one</li><li>two</li></ol>", " 1. one\n 2. two"],
    ["<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"],
    ["<h1>Title</h1>text", "Title\n\ntext"],
    ["<title>no</title><style>no</style><script>no</script>yes", "yes"],
    ["<html><body>in</body></html> after", "in after"],
    ['<img alt="A chart" src="cid:x">', "A chart"],
    ["1 &lt; 2 &amp;&nbsp;3", "1 < 2 & 3"],
    ["a&#0;b", "a\ufffdb"],
    ["a<div>b</div>c<p>d</p>", "a\nb\nc\n\nd"],
    ["<div>a</div><div><br></div><div>b</div>", "a\n\n\nb"],
    ["a <b> b </b> c\n\td<i>e</i>", "a b c de"],
    ["<dl><dt>term<dd>meaning</dl>", "term\nmeaning"],
    ["a<hr>b", `a\n\n${"-".repeat(40)}\n\nb`],
    ["<pre>a\n  b <b>c</b>\n\nd</pre>e", "a\n  b c\n\nd\n\ne"],
    ["<blockquote><p>a</p><p>b<blockquote>c</blockquote></blockquote>d", "> a\n>\n> b\n>\n> > c\n\nd"],
    ["<blockquote><pre>a\nb</pre></blockquote>", "> a\n> b"],
    ["<ul><li>a<ul><li>b<li>c</ul><li><p>d</p><p>e</p></ul>f", " * a\n   * b\n   * c\n\n * d\n\n   e\n\nf"],
    ["<ol start=9><li>a<li>b</ol><ol type=a><li>c</ol>", " 9. a\n 10. b\n\n a. c"],
    ["<li>a<li>b", " * a\n * b"],
    ['<a href="mailto:a@b.example">a@b.example</a>', "a@b.example"],
    ['<a href="mailto:a@b.example">Ann</a>', "Ann <a@b.example>"],
    ['<a href="#top">up</a>', "up"],
    ['x <a href="https://a.example/"><img src=y></a> z', "x https://a.example/ z"],
    ['<a href="https://a.example/a b\nc">d </a>e', "d <https://a.example/a%20bc> e"],
    ['<a href="https://a.example/"><a href="https://b.example/">b</a>', "https://a.example/ b <https://b.example/>"],
    ["<a>b</a>", "b"],
    ["<select><option>no</select><svg><text>no</text></svg>yes<template>no</template>", "yes"],
    ["", ""],
  ];
  for (const [html, expected] of cases) {
    test(html, () => {
      expect(textOfHtml(html).replaceAll("\u00a0", " ")).toBe(expected);
    });
  }

  test("keeps a long line whole", () => {
    expect(textOfHtml(`<p>${"word ".repeat(100).trim()}</p>`)).not.toContain("\n");
  });

  test("shows quotations inside each other, up to fifty", () => {
    const quoted = (depth: number) => `${"<blockquote>".repeat(depth)}deep`;
    expect(textOfHtml(quoted(3))).toBe("> > > deep");
    expect(textOfHtml(quoted(1_000))).toBe(`${"> ".repeat(50)}deep`);
  });

  test("strips the tags of HTML that is too deep, takes too much work or is too large", () => {
    expect(textOfHtml(`${"<div>".repeat(5_000)}deep &amp; down`)).toBe("deep & down");
    const lines = `${"<blockquote>".repeat(1_900)}${"a<br>".repeat(20_000)}`;
    expect(textOfHtml(lines)).toBe("a\n".repeat(20_000).trim());
    const spaced = `${"<div>".repeat(5_000)}${"<b>one  </b> two<br> \n &nbsp;</p>\n".repeat(20_000)}`;
    expect(textOfHtml(spaced)).toBe("one two\n".repeat(20_000).trim());
    expect(textOfHtml(`${"<div>".repeat(5_000)}${"&nbsp;<b>".repeat(500_000)}`)).toBe("");
    expect(textOfHtml(`<script>${"x".repeat(10)}</script>${"<b>y</b>".repeat(300_000)}`)).toBe("y".repeat(300_000));
    expect(textOfHtml(`${"<".repeat(3_000_000)}`).length).toBe(3_000_000);
  });

  test("never throws", () => {
    const tag = fc.constantFrom(
      "<p>",
      "</p>",
      "<table>",
      "<td>",
      "<a href=x>",
      "<",
      ">",
      "<!--",
      "&#x;",
      "text",
      "\ud800",
    );
    fc.assert(fc.property(fc.array(tag), (tags) => expect(textOfHtml(tags.join("")).isWellFormed()).toBe(true)));
  });
});
