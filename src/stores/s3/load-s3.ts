import { missingPackage } from '../../core/contracts/index.ts';

/** The package of the S3 client. */
export type S3Package = typeof import('@aws-sdk/client-s3');

/** Loaded when it is first needed. Errors: `MISSING_PACKAGE`. */
export async function loadS3(): Promise<S3Package> {
  try {
    return await import('@aws-sdk/client-s3');
  } catch (cause) {
    throw missingPackage('@aws-sdk/client-s3', cause);
  }
}
