export { S3ArtifactStore, type S3ArtifactStoreOptions } from './s3-artifact-store.ts';
export type { S3Target } from './s3-bucket.ts';
