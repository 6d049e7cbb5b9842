import { previewOf } from "../lib/api.ts";
export function PdfView({ id, title, onFailure }: { id: string; title: string; onFailure: () => void }) {
  return <iframe title={title} src={previewOf(id)} onError={onFailure} className="h-[76vh] w-full" />;
}
