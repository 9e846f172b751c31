// Appends to a task until it is killed, and prints the seq of each record that was acknowledged.
import { writeSync } from 'node:fs';
import { noteRecord as note, startRecord } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';

const [path = '', taskId = '', owner = ''] = process.argv.slice(2);
const store = new LmdbStateStore({ path });
await store.create(taskId, startRecord(taskId));
const lease = await store.acquire(taskId, owner, 50);
let seq = lease.seq;

async function append(size: number): Promise<void> {
  const records = Array.from({ length: size }, () => {
    seq++;
    return { ...note({ owner, text: `${seq} `.repeat(300) }), seq, epoch: lease.epoch, at: Date.now() };
  });
  const last = seq;
  await store.append(lease, records, { status: 'working', barrier: true });
  writeSync(1, `${last}\n`);
}

for (;;) await Promise.all([1, 3, 2].map(append));
