// Records the turns of `turns.ts` with the version that it is bundled with: see tests/fixtures/journals-0.1/README.md.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { recorded } from './played.ts';
import { knownTurns } from './turns.ts';

const lines = (values: readonly unknown[]) => values.map((value) => `    ${JSON.stringify(value)}`).join(',\n');

const [folder = '.', ...names] = process.argv.slice(2);
for (const [name, known] of Object.entries(knownTurns)) {
  if (names.length > 0 && !names.includes(name)) continue;
  const { steps, folds, end } = await recorded(known);
  const arrays = `  "steps": [\n${lines(steps)}\n  ],\n  "folds": [\n${lines(folds)}\n  ],\n`;
  const file = `{\n${arrays}  "end": ${JSON.stringify(end)}\n}\n`;
  writeFileSync(join(folder, `${name}.json`), file);
  console.log(name, steps.length, file.length, end.status, end.text);
}
