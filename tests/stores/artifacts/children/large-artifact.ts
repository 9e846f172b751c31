// Writes an artifact in chunks, reads it back and compares; says how much memory the buffers that are in use ever took.
import { createHash } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { folderArtifactStore } from 'millrace';
import { randomChunks } from 'millrace/internals';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');
const [path = '', megabytes = '0'] = process.argv.slice(2);
const totalBytes = Number(megabytes) * 1024 * 1024;
const store = folderArtifactStore(path);
let mostBytes = 0;

function measure(): void {
  collectGarbage();
  mostBytes = Math.max(mostBytes, process.memoryUsage().arrayBuffers);
}

await store.create({ artifactId: 'large', name: 'large' });
const written = createHash('sha256');
let chunks = 0;
for (const chunk of randomChunks(totalBytes, 256 * 1024)) {
  written.update(chunk);
  await store.append('large', chunk);
  if (chunks++ % 4 === 0) measure();
}
const { artifact } = await store.append('large', '', { last: true });

const read = createHash('sha256');
let size = 0;
for await (const chunk of store.read('large')) {
  read.update(chunk);
  size += chunk.length;
  if (chunks++ % 16 === 0) measure();
}
const [given, got] = [written.digest('hex'), read.digest('hex')];
process.send?.({ mostBytes, size, same: given === got && artifact?.sha256 === got });
process.disconnect();
