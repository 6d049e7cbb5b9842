/** Reads a QR code on a page as a phone does, from its visible shape. */
import type { Locator } from "playwright-core";
import decode from "qr/decode.js";

export async function readQr(shown: Locator): Promise<string> {
  const png = (await shown.screenshot()).toString("base64");
  const blank = await shown.page().context().newPage();
  const { width, height, pixels } = (await blank.evaluate(`(async () => {
    const image = new Image();
    image.src = "data:image/png;base64,${png}";
    await image.decode();
    const { width, height } = image;
    const canvas = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
    canvas.drawImage(image, 0, 0);
    return { width, height, pixels: [...canvas.getImageData(0, 0, width, height).data] };
  })()`)) as { width: number; height: number; pixels: number[] };
  await blank.close();
  return decode({ width, height, data: Uint8Array.from(pixels) });
}
