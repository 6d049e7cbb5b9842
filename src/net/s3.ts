/** A place in an S3 bucket, with the credentials for it. */
export interface S3Location {
  readonly bucket: string;
  /** Keys begin with it; it is empty or ends with a slash. */
  readonly prefix: string;
  /** Origin of the server, without a trailing slash. The bucket is the first part of the path. */
  readonly endpoint: string;
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}
