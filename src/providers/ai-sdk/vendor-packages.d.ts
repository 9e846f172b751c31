// What is used of vendors' packages that a checkout does not install: tests/vendors/package.json has them for `npm run test:e2e`.

interface VendorSettings {
  apiKey?: string;
  baseURL?: string;
  headers?: Record<string, string>;
  fetch?: typeof globalThis.fetch;
}

type MakesModels = (settings: VendorSettings) => (model: string) => import('./model-interface.ts').AISDKModel;

declare module '@ai-sdk/amazon-bedrock' {
  export const createAmazonBedrock: MakesModels;
}

declare module '@ai-sdk/google-vertex' {
  export const createVertex: MakesModels;
}

declare module '@ai-sdk/mistral' {
  export const createMistral: MakesModels;
}

declare module '@ai-sdk/xai' {
  export const createXai: MakesModels;
}
