/** Parts of a message that are shown on request: the reasons why it is in spam, and the original. */
import { useQuery } from "@tanstack/react-query";
import { urlTo } from "../../lib/api-client.ts";
import { formatByteSize } from "../../lib/format.ts";
import type { MessageView } from "../../lib/mail-views.ts";
import { classificationQuery } from "../../lib/queries.ts";
import { whySpam } from "../../lib/spam-reasons.ts";
import { CopyButton } from "../ui/button.tsx";
import { NotLoaded } from "../ui/notice.tsx";

export function WhySpam({ message: { id, from } }: { message: MessageView }) {
  const classification = useQuery(classificationQuery(id));
  if (classification.isError) return <p className="text-sm">{classification.error.message}</p>;
  if (!classification.data) return <p className="text-sm text-muted">Looking…</p>;
  const { because, spam, wanted } = whySpam(classification.data, from.email);
  return (
    <div className="text-sm">
      <p>{because}</p>
      {spam.length > 0 && <p className="mt-1 text-soft">Signs of spam: {spam.join(", ")}.</p>}
      {wanted.length > 0 && <p className="mt-1 text-soft">Signs of wanted mail: {wanted.join(", ")}.</p>}
      <p className="mt-1 text-muted">“Not spam” moves it to the inbox, and its sender is trusted from then on.</p>
    </div>
  );
}

/** Most characters of an original on the page; the download has all. */
const LONGEST_SHOWN = 200_000;

/** The original message as text. */
export function Original({ message: { id } }: { message: MessageView }) {
  const original = useQuery({
    queryKey: ["original", id],
    queryFn: async () => {
      const response = await fetch(urlTo("downloadOriginal", { id })).catch(() => undefined);
      if (!response?.ok) throw new Error("The original could not be loaded. Check your connection, then try again.");
      const octets = await response.blob();
      return { size: octets.size, text: await octets.text() };
    },
    gcTime: 0,
  });
  if (original.data === undefined) return <NotLoaded query={original} what="the original" />;
  const { size, text } = original.data;
  return (
    <>
      <div className="mb-3 flex gap-2">
        <a
          href={urlTo("downloadOriginal", { id })}
          download
          className="inline-flex h-8 items-center rounded-md border border-line bg-raised px-3 text-sm hover:bg-hover"
        >
          Download ({formatByteSize(size)})
        </a>
        <CopyButton label="Original message" value={text} />
      </div>
      <textarea
        readOnly
        aria-label="Original message"
        value={text.slice(0, LONGEST_SHOWN) + (text.length > LONGEST_SHOWN ? "\n…" : "")}
        className="h-[65vh] w-full resize-none rounded-lg bg-ground p-3 font-mono text-xs break-all"
      />
    </>
  );
}
