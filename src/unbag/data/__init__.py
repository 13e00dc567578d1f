"""Pictures that are opened late: from files, from pixels."""

from unbag.data.images import FilePicture, PixelPicture

__all__ = ["FilePicture", "PixelPicture"]
