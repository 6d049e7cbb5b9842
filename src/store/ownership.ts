/**
 * What root does in a folder of another user, such as the server's data folder. That user may put a link there, so that
 * root overwrites, reads or gives away what the link leads to. Links that root made are followed.
 *
 * For any other user than root these functions do nothing: the system refuses what that user may not do.
 */
import { fchownSync, lstatSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

const isRoot = (): boolean => process.getuid?.() === 0;

/** @throws Error if a link of another user is on the way to `path`, or is it. What is missing is no link. */
export function refuseLinks(path: string): void {
  if (!isRoot()) return;
  for (let at = resolve(path); at !== dirname(at); at = dirname(at)) {
    const found = lstatSync(at, { throwIfNoEntry: false });
    if (!found?.isSymbolicLink() || found.uid === 0) continue;
    throw new Error(`${at} is a link of another user, which root does not follow: remove it`);
  }
}

/**
 * The same for an open file or folder: no such link led to it when it was opened, either.
 * @throws Error; errors of the file system
 */
export function requirePlace(fd: number, path: string): void {
  if (!isRoot()) return;
  refuseLinks(path);
  if (readlinkSync(`/proc/self/fd/${fd}`) === realpathSync(path)) return;
  throw new Error(`${path} was replaced while it was opened`);
}

/** A path of an open folder: for root one that leads to this very folder, whatever others put in its place. */
export const folderOf = (fd: number, path: string): string => (isRoot() ? `/proc/self/fd/${fd}` : path);

/** Gives a file or folder that this process has made to the owner of its folder, whose server has to read it. */
export function giveToOwner(fd: number, path: string): void {
  if (!isRoot()) return;
  const { uid, gid } = statSync(dirname(path));
  fchownSync(fd, uid, gid);
}
