import { bundleAndRun } from './bundle.mjs';

await bundleAndRun(['main.ts', 'many-turns-child.ts', 'first-turn-child.ts']);
