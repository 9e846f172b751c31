import { bundleAndRun } from './bundle.mjs';

await bundleAndRun(['store/store-main.ts']);
