declare module "*.woff2" {
  const path: string;
  export default path;
}
