// Turns of a fleet at once while its processes and Redis die. What it does and tells is in README.md.
import { ChildBundle } from '../crash/parent/child-bundle.ts';
import { type LoadResult, runLoad } from './load.ts';
import { runMutations } from './mutation-run.ts';
import { type CommandLine, optionsOf, usage } from './options.ts';
import { tableOf } from './table.ts';

const options = given();
console.log(
  `seed ${options.seed}: ${options.turns} turns, ${options.workers} workers, journals in ${options.store}, a kill every ${options.killEveryMs} ms`,
);
if (options.planted.length > 0) process.exit((await runMutations(options, options.planted)) ? 0 : 1);
const bundle = new ChildBundle([], 'tests/fleet-load/child.ts');
const result: LoadResult = await runLoad(options, bundle.path).finally(() => bundle.remove());
console.log(tableOf(options, result));
for (const violation of result.violations.slice(0, 50)) console.log(`VIOLATION ${violation}`);
console.log(`${result.violations.length} violations, seed ${options.seed}`);
process.exit(result.violations.length > 0 ? 1 : 0);

function given(): CommandLine {
  try {
    return optionsOf(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n${usage}`);
    process.exit(1);
  }
}
