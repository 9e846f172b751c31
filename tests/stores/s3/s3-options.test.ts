import { describe, expect, it } from '@jest/globals';
import { S3ArtifactStore } from '../../../src/stores/s3/s3-artifact-store.ts';

describe('S3ArtifactStore', () => {
  it.each<[object, RegExp]>([
    [{}, /bucket is undefined/],
    [{ bucket: '' }, /bucket is ""/],
    [{ bucket: 'b', s3: 'http://localhost:9000' }, /s3 is "http/],
    [{ bucket: 'b', prefix: 'a b' }, /prefix is "a b"/],
    [{ bucket: 'b', partBytes: 1024 }, /partBytes is 1024; give a whole number of bytes from 5242880/],
    [{ bucket: 'b', conditionalWrites: 'no' }, /conditionalWrites is "no"/],
    [{ bucket: 'b', keepVersions: 1 }, /keepVersions is 1; give a whole number from 2/],
    [{ bucket: 'b', region: 'eu-central-1' }, /no option "region"; the options are: bucket, s3, prefix/],
  ])('refuses %j', (options, message) => {
    expect(() => Reflect.construct(S3ArtifactStore, [options])).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) }),
    );
  });

  it('connects to nothing before the first call, and can be closed without one', async () => {
    const store = new S3ArtifactStore({ bucket: 'b', s3: { endpoint: 'http://127.0.0.1:1' } });
    await store.close();
  });
});
