/**
 * Guards root's work in a folder of another user, such as the server's data folder. That user may put a link there, so that
 * root overwrites, reads or gives away the file that the link leads to. Links that root made are followed.
 *
 * For any other user than root these functions do nothing: the system refuses what that user may not do.
 */
import { fchownSync, lstatSync, readlinkSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

const isRoot = (): boolean => process.getuid?.() === 0;

/** Links on the way to a path, as many as Linux follows. */
const MOST_LINKS = 40;

/**
 * Follows the links in a path, all of which root must have made, and returns the path they lead to. A missing file is no link.
 * @throws Error if a link of another user is on the way, or is the path itself; errors of the file system
 */
function resolveRootLinks(path: string): string {
  const ahead = resolve(path).split("/");
  let reached = "/";
  for (let links = 0; ahead.length > 0; ) {
    const at = join(reached, ahead.shift() ?? "");
    const found = lstatSync(at, { throwIfNoEntry: false });
    if (!found?.isSymbolicLink()) {
      reached = at;
      continue;
    }
    if (found.uid !== 0) throw new Error(`${at} is a link of another user, which root does not follow: remove it`);
    if (++links > MOST_LINKS) throw new Error(`${path} leads through too many links`);
    const target = readlinkSync(at);
    if (target.startsWith("/")) reached = "/";
    ahead.unshift(...target.split("/"));
  }
  return reached;
}

/**
 * Checks a path for root. A missing file is no link.
 * @throws Error if a link of another user is on the way to `path`, or is the path itself
 */
export function refuseForeignLinks(path: string): void {
  if (isRoot()) resolveRootLinks(path);
}

/**
 * Checks for root that no link of another user led to an open file or folder when `path` was opened.
 * @throws Error; errors of the file system
 */
export function requireUnlinked(fd: number, path: string): void {
  // Asked of the path once: between two questions, others may put a link there and take it away.
  if (!isRoot() || resolveRootLinks(path) === readlinkSync(`/proc/self/fd/${fd}`)) return;
  throw new Error(`${path} was replaced while it was opened`);
}

/** A path of an open folder: for root one that leads to this very folder, whatever others put in its place. */
export const openedFolderPath = (fd: number, path: string): string => (isRoot() ? `/proc/self/fd/${fd}` : path);

/** Gives a file or folder that this process has made to the owner of its folder, whose server has to read it. */
export function giveFileToFolderOwner(fd: number, path: string): void {
  if (!isRoot()) return;
  const { uid, gid } = statSync(dirname(path));
  fchownSync(fd, uid, gid);
}
