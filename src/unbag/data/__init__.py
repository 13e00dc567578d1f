"""Pictures, captions and pairs in files: read, downloaded, written."""

from unbag.data.images import FilePicture, PixelPicture

__all__ = ["FilePicture", "PixelPicture"]
