// Stops, with the event loop, inside a write transaction, until it is continued.
import { writeSync } from 'node:fs';
import { LmdbDatabase } from 'millrace/internals';

const [path = ''] = process.argv.slice(2);
const database = new LmdbDatabase(path);
await database.write(() => {
  database.put(['stopped'], 'yes');
  writeSync(1, 'inside\n');
  process.kill(process.pid, 'SIGSTOP');
});
writeSync(1, 'committed\n');
await database.close();
