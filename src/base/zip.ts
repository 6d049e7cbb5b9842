/** ZIP archives: the only file that imports yauzl. */
export {
  type Entry,
  fromBufferPromise,
  fromRandomAccessReaderPromise,
  RandomAccessReader,
  type ZipFile,
} from "yauzl";
