/** Whether the folders are open, on a phone. */
import { cell } from "./cell.ts";

const open = cell(false);

export const openSidebar = (): void => open.set(true);
export const closeSidebar = (): void => open.set(false);
export const useSidebar = open.use;
