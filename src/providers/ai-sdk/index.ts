export type { AISDKProviderOptions } from './ai-sdk-options.ts';
export { AISDKProvider } from './ai-sdk-provider.ts';
export { type CreateProviderOptions, createProvider, type VendorProvider } from './create-provider.ts';
export type { AISDKModel } from './model-interface.ts';
export type { SdkJson, SdkJsonObject, VendorData } from './sdk-model.ts';
export { type VendorName, vendorNames } from './vendors.ts';
