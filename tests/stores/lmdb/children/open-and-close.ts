// Opens, writes and closes a store over and over, as long as it is told to.

import { startRecord } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';

const [path = '', name = '', times = '0'] = process.argv.slice(2);
for (let time = 1; time <= Number(times); time++) {
  const store = new LmdbStateStore({ path });
  if (time % 10 === 0) await store.create(`${name}-${time}`, startRecord(`${name}-${time}`));
  await store.close();
}
