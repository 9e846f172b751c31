import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { S3ArtifactStore } from 'millrace/s3';

const credentials = { accessKeyId: 'key', secretAccessKey: 'secret' };

describe('S3ArtifactStore', () => {
  it.each<[object, RegExp]>([
    [{}, /bucket is missing/],
    [{ bucket: '' }, /bucket must be a non-empty string, not ""; give the name of a bucket/],
    [{ bucket: 'b', s3: 'http://localhost:9000' }, /s3 must .*, not "http/],
    [{ bucket: 'b', prefix: 'a b' }, /prefix must .*, not "a b"/],
    [{ bucket: 'b', partBytes: 1024 }, /partBytes must .*, not 1024/],
    [{ bucket: 'b', conditionalWrites: 'no' }, /conditionalWrites must .*, not "no"/],
    [{ bucket: 'b', keepVersions: 1 }, /keepVersions must .*, not 1/],
    [{ bucket: 'b', region: 'eu-central-1' }, /no option "region"; the options are: bucket, s3, prefix/],
  ])('refuses %j', (options, message) => {
    expect(() => Reflect.construct(S3ArtifactStore, [options])).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) }),
    );
  });

  it('connects to nothing before the first call, and can be closed without one', async () => {
    const server = createServer();
    let connections = 0;
    server.on('connection', (socket) => {
      connections++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const connecting = () =>
      new S3ArtifactStore({
        bucket: 'b',
        s3: { region: 'r', credentials, endpoint: `http://127.0.0.1:${port}`, maxAttempts: 1 },
      });
    await connecting().close();
    expect(connections).toBe(0);
    const store = connecting();
    await expect(store.list({ taskId: 't' })).rejects.toThrow();
    expect(connections).toBeGreaterThan(0);
    await store.close();
    await new Promise((resolve) => server.close(resolve));
  });
});
