// Writes versions of an artifact until it is killed, in chunks and whole, and prints the number of each that was acknowledged.
import { writeSync } from 'node:fs';
import { folderArtifactStore } from 'millrace';

const [path = '', first = '1'] = process.argv.slice(2);
const store = folderArtifactStore(path, { keepVersions: 3 });
if (first === '1') await store.create({ artifactId: 'a', name: 'v1', taskId: 't', content: '1'.repeat(200_000) });

for (let version = Number(first) + 1; ; version++) {
  const content = `${version % 10}`.repeat(200_000);
  if (version % 2 === 0) {
    await store.append('a', content.slice(0, 70_000), { offset: 0 });
    await store.append('a', content.slice(70_000), { last: true });
  } else {
    await store.update('a', { content, name: `v${version}` });
  }
  writeSync(1, `${version}\n`);
}
