import { ChildBundle } from '../crash/parent/child-bundle.ts';
import { runLoad } from './load.ts';
import { mutations } from './mutations.ts';
import type { LoadOptions } from './options.ts';

/** Without the task before it, and what was found after it. */
function promiseOf(violation: string): string {
  return violation.replace(/^turn-\d+: /, '').split(':')[0] ?? '';
}

/** Plants each bug, or those that are named, and runs the load. Prints what gave it away; true where its check found each. */
export async function runMutations(options: LoadOptions, names: readonly string[]): Promise<boolean> {
  let survivors = 0;
  for (const name of names) {
    const { check, patches } = mutations[name] ?? { check: '', patches: [] };
    const bundle = new ChildBundle(patches, 'tests/fleet-load/child.ts');
    const { violations, ms } = await runLoad(options, bundle.path).finally(() => bundle.remove());
    const evidence = violations.filter((violation) => violation.includes(check));
    if (evidence.length === 0) survivors++;
    const others = violations.length - evidence.length;
    const cost = `${options.turns} turns, ${Math.round(ms / 1_000)} s, ${others} other violations`;
    console.log(`${evidence.length === 0 ? 'SURVIVED' : 'caught  '}  ${name} (${cost})`);
    for (const promise of new Set([...evidence, ...violations].map(promiseOf)).values())
      console.log(`            ${promise}`);
  }
  return survivors === 0;
}
