// SPDX-License-Identifier: Apache-2.0
//! CRC-64/NVME, and the eight bytes of one in base64, as S3 writes them.

/// Bits are reflected; begins and ends with all ones inverted.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

const fn tables() -> [[u64; 256]; 8] {
    let mut t = [[0u64; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        t[0][i] = crc;
        i += 1;
    }
    let mut k = 1;
    while k < 8 {
        i = 0;
        while i < 256 {
            t[k][i] = (t[k - 1][i] >> 8) ^ t[0][(t[k - 1][i] & 0xff) as usize];
            i += 1;
        }
        k += 1;
    }
    t
}

static TABLES: [[u64; 256]; 8] = tables();

/// Of host memory, eight bytes at a time.
pub fn crc64nvme(data: &[u8]) -> u64 {
    let mut crc = !0u64;
    let mut words = data.chunks_exact(8);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        let x = (crc ^ u64::from_le_bytes(bytes)).to_le_bytes();
        crc = (0..8).fold(0, |sum, i| sum ^ TABLES[7 - i][usize::from(x[i])]);
    }
    for byte in words.remainder() {
        crc = (crc >> 8) ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)];
    }
    !crc
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// As `x-amz-checksum-crc64nvme` has it.
pub fn crc64nvme_base64(data: &[u8]) -> String {
    to_base64(crc64nvme(data))
}

fn to_base64(crc: u64) -> String {
    // 64 bits are ten digits of six bits and one of four, then one `=`.
    let wide = u128::from(crc) << 2;
    let digit = |i: u32| char::from(ALPHABET[((wide >> (60 - 6 * i)) & 63) as usize]);
    (0..11).map(digit).chain(std::iter::once('=')).collect()
}

/// None when it is not eight bytes in base64.
pub(crate) fn crc64nvme_from_base64(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('=')?.as_bytes();
    if digits.len() != 11 {
        return None;
    }
    let mut wide = 0u128;
    for digit in digits {
        wide = wide << 6 | ALPHABET.iter().position(|c| c == digit)? as u128;
    }
    if wide & 3 == 0 {
        u64::try_from(wide >> 2).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(crc64nvme(b"123456789"), 0xae8b_1486_0a79_9888);
        assert_eq!(crc64nvme(b""), 0);
        assert_eq!(crc64nvme_base64(b"123456789"), "rosUhgp5mIg=");
    }

    #[test]
    fn words_and_bytes_agree() {
        let data: Vec<u8> = (0..200u32).map(|i| (i * 37 % 251) as u8).collect();
        for len in 0..data.len() {
            let mut crc = !0u64;
            for byte in &data[..len] {
                crc = (crc >> 8) ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)];
            }
            assert_eq!(crc64nvme(&data[..len]), !crc);
        }
    }

    #[test]
    fn base64_goes_both_ways() {
        for crc in [0, 1, u64::MAX, 0xae8b_1486_0a79_9888, 1 << 63] {
            assert_eq!(crc64nvme_from_base64(&to_base64(crc)), Some(crc));
        }
        for text in [
            "",
            "rosUhgp5mIg",
            "rosUhgp5mIh=",
            "rosUhgp5mI==",
            "rosUhgp5mI*=",
            "AAAA",
        ] {
            assert_eq!(crc64nvme_from_base64(text), None, "{text}");
        }
    }
}
