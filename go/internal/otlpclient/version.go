// SPDX-License-Identifier: Apache-2.0

package otlpclient

// Version is the version of this module.
const Version = "0.1.0"

// UserAgent is what requests say about their sender.
const UserAgent = "wick-go/" + Version
