import { bundleAndRun } from './bundle.mjs';

await bundleAndRun(['store/growth.ts']);
